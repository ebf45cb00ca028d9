"""The data sets, in the order in which they are shown."""

from benchmarks.real import chest_xrays, emotions, medical_questions, readability, six_options

SOURCES = (
    readability.SOURCE,
    six_options.SOURCE,
    emotions.SOURCE,
    medical_questions.SOURCE,
    chest_xrays.SOURCE,
)

"""HTTP: the native API, OpenAI's, the Open Inference Protocol, and the pages for people."""

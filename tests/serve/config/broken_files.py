"""Mistakes of a hurried user, each made in one otherwise sound file, and what is said of it."""

from demur.serve.hosts.kinds import KINDS

SOUND = """\
models:
  tickets:
    task:
      kind: multiclass
      labels: [activate_my_card, age_limit, apple_pay_or_google_pay, atm_support, automatic_top_up, balance_not_updated]
    host: {kind: classifier, checkpoint: model}
    scores: [softmax_response, entropy]
    confidence: {score: entropy, calibrator: isotonic}
    policy: {kind: conformal}
    prediction_set: {kind: split, alpha: 0.05}
    spot_check: 0.02
review:
  rules:
    - {when: {models: [tickets]}, priority: 3}
http: {host: 127.0.0.1, port: 8100}
"""

NAMES = [
    "activate_my_card",
    "age_limit",
    "apple_pay_or_google_pay",
    "atm_support",
    "automatic_top_up",
    "balance_not_updated",
]
"""Of the classes of the checkpoint `model`, in its order."""

BROKEN: list[tuple[str, str, str | list[str]]] = [
    (
        "    confidence: {",
        "    confidense: {",
        "line 8, column 5: models.tickets.confidense: this key is not known; did you mean `confidence`?",
    ),
    (
        "    spot_check: 0.02",
        "    control: {max_risk: 0.1}",
        "line 11, column 5: models.tickets.control.kind: this key is missing; it says which kind is meant:"
        " review_price, review_rate, tracked_limit, adaptive_sets",
    ),
    (
        "port: 8100",
        "port: eighty",
        "line 15, column 31: http.port: a whole number is wanted here, not 'eighty'",
    ),
    (
        "    spot_check: 0.02\n",
        "    spot_check: 0.02\n  tickets:\n    task: {kind: binary}\n",
        [
            "line 12, column 3: models.tickets.host: this key is missing",
            "line 12, column 3: models.tickets: this key is there twice, first in line 2",
            "line 13, column 5: models.tickets.task.labels: list the labels of the binary task",
        ],
    ),
    (
        "age_limit,",
        "activate_my_card,",
        "line 5, column 34: models.tickets.task.labels.1: 'activate_my_card' is listed twice",
    ),
    (
        "{kind: classifier, checkpoint: model}",
        '{kind: openai, model: m, base_url: "htp://nowhere"}',
        "line 6, column 46: models.tickets.host.base_url: write an address that begins with http:// or https://",
    ),
    (
        "alpha: 0.05",
        "alpha: -0.05",
        "line 10, column 42: models.tickets.prediction_set.alpha: alpha is -0.05, outside (0, 1)",
    ),
    (
        "{score: entropy",
        "{score: [: entropy",
        "line 8, column 26: a value is wanted here",
    ),
    (
        "    spot_check",
        "\tspot_check",
        "line 11, column 1: a tab stands here; indent with blanks",
    ),
    (
        "http:",
        "database: env:DEMUR_NOPE\nhttp:",
        "line 15, column 11: database: the environment variable DEMUR_NOPE is not set, and it should hold this",
    ),
    (
        "softmax_response, entropy]",
        "softmax_respons, entropy]",
        (
            "line 7, column 14: models.tickets.scores.0: 'softmax_respons' is not one of: softmax_response,"
            " entropy, margin, sampled_max_probability, mc_entropy, probability_variance, bald, max_logit, energy,"
            " binary_entropy, mahalanobis, relative_mahalanobis, local_outlier_factor, isolation_forest, deep_knn,"
            " hybrid, logistic, combined, cascade, venn_abers_width; did you mean `softmax_response`?"
        ),
    ),
    (
        "kind: conformal",
        "kind: confomal",
        (
            "line 9, column 20: models.tickets.policy.kind: 'confomal' is not one of: threshold, target_risk,"
            " rejection_rate, selective_risk, conformal, risk_control, cost, all_of, observe; did you mean `conformal`?"
        ),
    ),
    (
        "score: entropy",
        "score: margin",
        (
            "line 8, column 25: models.tickets.confidence.score: 'margin' is not among the scores:"
            " softmax_response, entropy"
        ),
    ),
    (
        "    policy: {kind: conformal}\n",
        "",
        "line 2, column 3: models.tickets.policy: this key is missing",
    ),
    (
        "models:\n  tickets",
        "model:\n  tickets",
        (
            "line 1, column 1: model: this key is not known; did you mean `models`, or does it belong under"
            " `models.NAME.host`?"
        ),
    ),
    (
        "  tickets:\n",
        "  Tickets!:\n",
        (
            "line 2, column 3: models.Tickets!: a model's name has lower-case letters, digits, `_`, `.` and `-`,"
            " up to 63 of them, and begins with a letter or digit"
        ),
    ),
    (
        "port: 8100",
        "port: 81000",
        "line 15, column 31: http.port: write at most 65,535, not 81000",
    ),
    (
        "port: 8100",
        "prot: 8100",
        "line 15, column 25: http.prot: this key is not known; did you mean `port`?",
    ),
    (
        "port: 8100",
        "port:",
        "line 15, column 30: http.port: a value is missing here: a whole number is wanted",
    ),
    (
        "port: 8100",
        "port: 8100.5",
        "line 15, column 31: http.port: a whole number is wanted here, not '8100.5'",
    ),
    (
        "port: 8100",
        "port: yes",
        "line 15, column 31: http.port: a number is wanted here, and YAML reads this as true",
    ),
    (
        "port: 8100",
        "port: 0100",
        "line 15, column 31: http.port: YAML reads '0100' as the number 64; write that, or put a text in quotes",
    ),
    (
        "http:",
        "htttp:",
        "line 15, column 1: htttp: this key is not known; did you mean `http`?",
    ),
    (
        "    host: {",
        "    hots: {",
        "line 6, column 5: models.tickets.hots: this key is not known; did you mean `host`?",
    ),
    (
        "checkpoint: model",
        "chekpoint: model",
        "line 6, column 30: models.tickets.host.chekpoint: this key is not known; did you mean `checkpoint`?",
    ),
    (
        "    host: {kind: classifier, checkpoint: model}",
        "    host: {kind: classifier}\n    checkpoint: model",
        "line 7, column 5: models.tickets.checkpoint: this key is not known; it belongs under `models.tickets.host`",
    ),
    (
        "kind: classifier,",
        "type: classifier,",
        (
            "line 6, column 5: models.tickets.host.kind: this key is missing; it says which kind is meant:"
            f" {', '.join(KINDS)}"
        ),
    ),
    (
        "kind: classifier,",
        "kind: clasifier,",
        (
            f"line 6, column 18: models.tickets.host.kind: 'clasifier' is not one of: {', '.join(KINDS)}; did you mean"
            " `classifier`?"
        ),
    ),
    (
        "kind: classifier,",
        "kind: [classifier],",
        f"line 6, column 18: models.tickets.host.kind: write one of: {', '.join(KINDS)}",
    ),
    (
        "{kind: classifier, checkpoint: model}",
        "model",
        "line 6, column 11: models.tickets.host: an object of keys and values is wanted here, not 'model'",
    ),
    (
        "checkpoint: model}",
        "checkpoint: model, device: gpu}",
        "line 6, column 57: models.tickets.host.device: write auto, cpu, cuda, cuda:1 or mps",
    ),
    (
        "checkpoint: model}",
        "checkpoint: model, batch: 64}",
        "line 6, column 56: models.tickets.host.batch: an object of keys and values is wanted here, not '64'",
    ),
    (
        "checkpoint: model}",
        "checkpoint: model, batch: {max_size: 0}}",
        "line 6, column 67: models.tickets.host.batch.max_size: write at least 1, not 0",
    ),
    (
        "kind: multiclass",
        "kind: multi_class",
        (
            "line 4, column 13: models.tickets.task.kind: 'multi_class' is not one of: binary, multiclass,"
            " multilabel, choice, generate; did you mean `multiclass`?"
        ),
    ),
    (
        "[activate_my_card,",
        "[yes,",
        (
            "line 5, column 16: models.tickets.task.labels.0: a text is wanted here, and YAML reads 'yes' as"
            " true; put it in quotes"
        ),
    ),
    (
        "[activate_my_card,",
        "[1, 2026-11-21,",
        [
            (
                "line 5, column 16: models.tickets.task.labels.0: a text is wanted here, and YAML reads '1' as a"
                " number; put it in quotes"
            ),
            (
                "line 5, column 19: models.tickets.task.labels.1: a text is wanted here, and YAML reads"
                " '2026-11-21' as a date; put it in quotes"
            ),
        ],
    ),
    (
        "    scores: [softmax_response, entropy]",
        "    scores: softmax_response, entropy",
        "line 7, column 13: models.tickets.scores: a list is wanted here, not 'softmax_response, entropy'",
    ),
    (
        "    scores: [softmax_response, entropy]",
        "    scores: []",
        "line 7, column 13: models.tickets.scores: at least 1 entry is wanted here, and there are 0",
    ),
    (
        "    scores: [softmax_response, entropy]",
        "    scores: [entropy, {mahalanobis: {shrinkag: 0.1}}]",
        (
            "line 7, column 48: models.tickets.scores.1.mahalanobis.shrinkag: mahalanobis has no such setting; it"
            " takes: shrinkage; did you mean `shrinkage`?"
        ),
    ),
    (
        "    scores: [softmax_response, entropy]",
        "    scores: [entropy, {mahalanobis: {shrinkage: a lot}}]",
        "line 7, column 49: models.tickets.scores.1.mahalanobis.shrinkage: shrinkage is 'a lot', not a number from 0 to"
        " 1 or ledoit_wolf",
    ),
    (
        "    scores: [softmax_response, entropy]",
        "    scores:\n      - softmax_response\n      - entropy:",
        (
            "line 9, column 17: models.tickets.scores.1.entropy: a value is missing here: an object of keys and"
            " values is wanted"
        ),
    ),
    (
        "calibrator: isotonic",
        "calibrator: isotonik",
        (
            "line 8, column 46: models.tickets.confidence.calibrator: 'isotonik' is not one of: isotonic, platt,"
            " beta, histogram_binning, temperature, min_max, correctness, vector, dirichlet, venn_abers;"
            " did you mean `isotonic`?"
        ),
    ),
    (
        "calibrator: isotonic",
        "calibrator: {histogram_binning: {bins: 5}}",
        (
            "line 8, column 73: models.tickets.confidence.calibrator.histogram_binning.bins: histogram_binning"
            " has no such setting; it takes: n_bins, strategy; did you mean `n_bins`?"
        ),
    ),
    (
        "kind: conformal",
        "kind: selective_risk, max_risk: 5%",
        "line 9, column 46: models.tickets.policy.max_risk: a number is wanted here, not '5%'",
    ),
    (
        "kind: conformal",
        "max_risk: 0.05",
        (
            "line 9, column 5: models.tickets.policy.kind: this key is missing; write one of: threshold,"
            " target_risk, rejection_rate, selective_risk, conformal, risk_control, cost, all_of, observe"
        ),
    ),
    (
        "    policy: {kind: conformal}",
        "    policy: conformal",
        "line 9, column 13: models.tickets.policy: an object of keys and values is wanted here, not 'conformal'",
    ),
    (
        "    policy: {kind: conformal}",
        "    policy: {kind: conformal}\n    max_risk: 0.05",
        (
            "line 10, column 5: models.tickets.max_risk: this key is not known; it belongs under"
            " `models.tickets.control` or `models.tickets.monitor` or `models.tickets.policy`"
        ),
    ),
    (
        "    policy: {kind: conformal}",
        "    policy: {kind: cost, matrix: {age_limit: {atm_support: 1}}}",
        (
            "line 9, column 34: models.tickets.policy.matrix: write a row of costs for each label that may be"
            " predicted: activate_my_card, age_limit, apple_pay_or_google_pay, atm_support, automatic_top_up,"
            " balance_not_updated"
        ),
    ),
    (
        "spot_check: 0.02",
        "spot_check: 2%",
        "line 11, column 17: models.tickets.spot_check: a number is wanted here, not '2%'",
    ),
    (
        "spot_check: 0.02",
        "spot_check: {rate: 0.1, floor: 0.5}",
        "line 11, column 24: models.tickets.spot_check.rate: 0.1 is below the floor of 0.5",
    ),
    (
        "[tickets]",
        "[ticket]",
        (
            "line 14, column 24: review.rules.0.when.models.0: there is no model 'ticket'; there are: tickets;"
            " did you mean `tickets`?"
        ),
    ),
    (
        "priority: 3",
        "priority: high",
        "line 14, column 45: review.rules.0.priority: a whole number is wanted here, not 'high'",
    ),
    (
        "priority: 3",
        "priorty: 3",
        [
            (
                "line 14, column 7: review.rules.0: write what holds for these cases: `priority`, `due_minutes`"
                " or `opinions`"
            ),
            "line 14, column 35: review.rules.0.priorty: this key is not known; did you mean `priority`?",
        ],
    ),
    (
        "http: {host: 127.0.0.1, port: 8100}",
        "http:\n  host: 127.0.0.1\n  port: 8100\n  port: 8101",
        "line 18, column 3: http.port: this key is there twice, first in line 17",
    ),
    (
        "http: {",
        "data: 5\nhttp: {",
        "line 15, column 7: data: the name of a file or folder is wanted here, not '5'",
    ),
    (
        "http: {",
        "data: ./data\nkeep_inputs_days: forever\nhttp: {",
        "line 16, column 19: keep_inputs_days: a number is wanted here, not 'forever'",
    ),
    (
        "http: {",
        "access: keys\nhttp: {",
        "line 15, column 9: access: an object of keys and values is wanted here, not 'keys'",
    ),
    (
        "http: {",
        "defaults: &d {port: 1}\nhttp: {<<: *e, ",
        "line 16, column 12: `*e` stands for `&e`, which is nowhere above; put a text that begins with * in quotes",
    ),
    (
        "http: {host: 127.0.0.1, port: 8100}",
        "http: !env PORT",
        [
            "line 15, column 7: http: an object of keys and values is wanted here, not 'PORT'",
            "line 15, column 7: http: the tag !env is not taken here; leave it out",
        ],
    ),
    (
        "http: {host: 127.0.0.1, port: 8100}",
        "http: {host: 127.0.0.1, port: 8100",
        "line 16, column 1: what `{` opens in line 15 is not closed by `}`, or a comma is missing in it",
    ),
    (
        "      kind: multiclass\n",
        "      kind: multiclass\n     match: exact\n",
        (
            "line 5, column 6: this does not line up with the lines above; check the indentation, and the quotes"
            " around texts"
        ),
    ),
    (
        "    spot_check: 0.02\n",
        "    spot_check: 0.02\n    escalate_to: ticket\n",
        (
            "line 12, column 18: models.tickets.escalate_to: there is no model 'ticket'; there are: tickets; did"
            " you mean `tickets`?"
        ),
    ),
    (
        "    spot_check: 0.02\n",
        "    spot_check: 0.02\n    prompt: {template: x.jinja}\n",
        (
            "line 12, column 13: models.tickets.prompt: this section is for language models, and the host is a"
            " classifier; leave it out"
        ),
    ),
    (
        "    spot_check: 0.02\n",
        "    spot_check: 0.02\n    control: {kind: tracked_limit, max_risk: 0.1, step: 3}\n",
        (
            "line 12, column 57: models.tickets.control.step: at a spot check of 0.02 one label would move the"
            " limit by up to 150 of its range, and it would swing between answering all and nothing; write at"
            " most 0.001, or check more"
        ),
    ),
    (
        "    spot_check: 0.02\n",
        "    spot_check: 0.02\n    monitor: true\n",
        (
            "line 12, column 14: models.tickets.monitor: write the settings of a monitor, such as `{max_risk:"
            " 0.02}`, or `false` for none"
        ),
    ),
    (
        "    spot_check: 0.02\n",
        "    spot_check: 0.02\n    calibration: {data: rows.csv, seed: none}\n",
        "line 12, column 41: models.tickets.calibration.seed: a whole number is wanted here, not 'none'",
    ),
    (
        "    scores: [softmax_response, entropy]\n    confidence: {score: entropy, calibrator: isotonic}",
        "    scores: [softmax, entropi]\n    confidence: {score: entropy, calibrator: isotonik, rihgt: exact}",
        [
            (
                "line 7, column 14: models.tickets.scores.0: 'softmax' is not one of: softmax_response, entropy,"
                " margin, sampled_max_probability, mc_entropy, probability_variance, bald, max_logit, energy,"
                " binary_entropy, mahalanobis, relative_mahalanobis, local_outlier_factor, isolation_forest, deep_knn,"
                " hybrid, logistic, combined, cascade, venn_abers_width; did you mean `softmax_response`?"
            ),
            (
                "line 7, column 23: models.tickets.scores.1: 'entropi' is not one of: softmax_response, entropy,"
                " margin, sampled_max_probability, mc_entropy, probability_variance, bald, max_logit, energy,"
                " binary_entropy, mahalanobis, relative_mahalanobis, local_outlier_factor, isolation_forest, deep_knn,"
                " hybrid, logistic, combined, cascade, venn_abers_width; did you mean `entropy`?"
            ),
            (
                "line 8, column 46: models.tickets.confidence.calibrator: 'isotonik' is not one of: isotonic,"
                " platt, beta, histogram_binning, temperature, min_max, correctness, vector, dirichlet, venn_abers;"
                " did you mean `isotonic`?"
            ),
            "line 8, column 56: models.tickets.confidence.rihgt: this key is not known; did you mean `right`?",
        ],
    ),
]
"""What stands in the file, what is written in its place, and what is said: one sentence, or several."""

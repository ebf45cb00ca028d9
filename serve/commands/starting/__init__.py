"""`demur init`: the first configuration of somebody who has a model and perhaps a labelled file."""

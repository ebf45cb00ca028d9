"""The record of every prediction: what was asked, what was decided, what turned out to be true."""

"""Rows and classifiers that several tests share."""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

THRESHOLD = {"kind": "threshold", "limit": 0.8}


def cancer():
    return load_breast_cancer(return_X_y=True)


def digits():
    return load_digits(return_X_y=True)


def linear(**settings):
    return make_pipeline(StandardScaler(), LogisticRegression(**settings))


def split_digits():
    """Rows to train on, and others to calibrate on."""
    X, y = digits()
    return train_test_split(X, y, test_size=0.6, random_state=0, stratify=y)


def drawn(n, rng, *, classes=3):
    """Probabilities that are right as often as they say, and the classes."""
    probabilities = rng.dirichlet(np.full(classes, 0.3), size=n)
    y = (rng.random(n)[:, None] > probabilities.cumsum(axis=1)).sum(axis=1).clip(max=classes - 1)
    return probabilities, y

"""Models of tables that lie in a file: of scikit-learn, XGBoost and LightGBM."""

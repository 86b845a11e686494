"""Counterfactual replay: recorded runs under any policy, budget and layout, without a model and without a network."""

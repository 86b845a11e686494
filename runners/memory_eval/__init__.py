"""Dialogue memories (LongMemEval, LoCoMo) under context policies: is the evidence shown, is the question answered?"""

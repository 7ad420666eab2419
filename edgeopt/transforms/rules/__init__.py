"""The rule language: a substitution is described once, as a pattern, conditions and a replacement.

`terms` and `form` are the language, and know no graph. `matching`, `writing` and `engine` are one
way to carry rules out: a rewriter on onnx_ir. `transform` puts a rule on a shelf.
"""

"""Fitted models as ONNX graphs: formulas in standard operators, of the models' own state.

`graph` writes nodes; `inputs` says what is read, `steps` scalers, `sums` kernels, `answers` detectors, `p_values`
calibration; `computed` chooses the type; `export` makes the file, and `pipelines` has skl2onnx convert other steps.
"""

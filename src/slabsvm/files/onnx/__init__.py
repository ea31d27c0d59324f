"""Fitted models as ONNX graphs: formulas in standard operators, of the models' own state.

`graph` writes nodes; `inputs` says what is read, `steps` scalers, `sums` kernels, `answers` detectors, and
chooses the type; `p_values` calibration; `export` makes the file, and `pipelines` has skl2onnx convert other steps.
"""

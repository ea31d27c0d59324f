"""Fitted models as ONNX graphs: formulas in standard operators, of the models' own state.

`graph` writes nodes; `sums` kernels, `steps` scalers, `answers` detectors, `p_values` calibration; `export` makes the
file, and `pipelines` has skl2onnx convert what stands before a detector.
"""

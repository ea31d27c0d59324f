"""The colour of each model and method, the same in every figure and page."""

from slabsvm.display.palette import GREEN, KNOWN, NOVEL, SAND, SOFT

MODEL_COLOURS = {
    "slab": KNOWN,
    "one-class SVM (scikit-learn)": NOVEL,
    "one-class SVM, leave-one-out plane": SAND,
}

METHOD_COLOURS = {"KDE": SOFT, "KPCA": GREEN, "SVDD": SAND, "OCSVM": NOVEL, "OCSSVM": KNOWN}

"""Tables as people keep them: named columns of numbers, texts and gaps, and how they become rows for a detector.

No file is read here, and no library of tables is imported: a table is whatever has columns that become arrays.
"""

from slabsvm.tables.cells import TableError
from slabsvm.tables.encoder import TableEncoder

__all__ = ["TableEncoder", "TableError"]

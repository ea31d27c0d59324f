"""The experiments of the paper, run again with slabsvm: from data to records, and from records to pages.

A distribution of its own, which uses slabsvm's public names as any user would; its subcommands join the command
`slabsvm`.
"""

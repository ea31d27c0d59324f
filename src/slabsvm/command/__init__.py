"""The command line. click and rich, the optional extra `slabsvm[command]`, are imported in this folder alone.

Other distributions add subcommands through entry points of the group `slabsvm.commands`.
"""

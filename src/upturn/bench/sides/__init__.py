"""What runs in the processes of a comparison; each file is one side, found by ``module:function``."""

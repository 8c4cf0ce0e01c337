"""Reads results back: the mean over copies, for each configuration."""

import sys

import pandas as pd
from letters.params import param2default, param2requests
from ludwig.results import gen_param_paths

isolated = "--isolated" in sys.argv
for param_path, label in gen_param_paths("Letters", param2requests, param2default, isolated=isolated, verbose=False):
    copies = [pd.read_csv(path, index_col=0) for path in sorted(param_path.glob("*num*/bits.csv"))]
    print(label.replace("\n", ", "), "->", round(pd.concat(copies, axis=1).iloc[-1].mean(), 3), "bits a letter")

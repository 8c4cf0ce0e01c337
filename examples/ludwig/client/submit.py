"""Submits four configurations, twice each, waits for them and prints what came out."""

from pathlib import Path

from ludwigcluster.client import Client

param2val_list = [{"order": order, "smoothing": smoothing, "epochs": 3} for order in (1, 2) for smoothing in (0.1, 1.0)]

if __name__ == "__main__":
    client = Client("letters-client")  # makes a folder on the shared drive
    submission = client.submit(
        src_ps=[Path("src")],  # goes to the workers, as it is now
        data_ps=[Path("corpora")],  # goes to the shared drive, once
        param2val_list=param2val_list,
        reps=2,
    )
    submission.wait()
    print(submission.results()[["order", "smoothing", "bits", "host", "run"]])

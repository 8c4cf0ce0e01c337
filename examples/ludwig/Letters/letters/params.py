"""Which configurations: all combinations of the requests, with defaults for the rest."""

param2requests = {
    "order": [1, 2],
    "smoothing": [0.1, 1.0],
}

param2default = {
    "order": 1,
    "smoothing": 1.0,
    "epochs": 4,
    "alphabet": ("abcdefghijklmnopqrstuvwxyz", " ,.\n"),
}

param2debug = {
    "epochs": 1,
}

param2requests = {
    'order': [1, 2],
}

param2default = {
    'order': 1,
    'smoothing': 0.5,
    'sizes': (8, 8),
}

param2debug = {
    'smoothing': 1.0,
}

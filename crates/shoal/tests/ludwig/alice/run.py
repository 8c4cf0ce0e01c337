from pathlib import Path
import pickle
import socket
from your_module import neural_net_job

hostname = socket.gethostname()
# load list of neural network configurations provided by ludwigcluster (saved to file server)
p = Path('/media/research_data/alice_net') / '{}_param2val_chunk.pkl'.format(hostname)
with p.open('rb') as f:
    param2val_chunk = pickle.load(f)
# iterate over neural network configurations, and for each, do some neural_net_job
for param2val in param2val_chunk:
    neural_net_job(param2val)

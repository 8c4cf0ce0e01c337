from ludwig.results import gen_param_paths
from letters.params import param2default, param2requests

for param_path, label in gen_param_paths('Letters', param2requests, param2default, ludwig_data_path='/media/research_data', verbose=False):
    print(param_path.name, label.replace('\n', ' '))

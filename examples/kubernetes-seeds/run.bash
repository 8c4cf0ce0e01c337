#!/bin/bash
# Stands for the training script. What differs from run to run comes from the environment.
set -eu
mkdir -p "$SHOAL_SAVE_PATH"
sleep "${SECONDS_TO_TRAIN:-0}"
echo "$* seed=$SHOAL_SEED gpu=$NVIDIA_VISIBLE_DEVICES cuda=$CUDA_VISIBLE_DEVICES" >"$SHOAL_SAVE_PATH/result.txt"

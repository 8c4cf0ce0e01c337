#!/bin/bash
# Stands for the training script. What differs from run to run comes from the environment.
set -eu
mkdir -p "$SHOAL_SAVE_PATH"
# Who is told to end ends: nobody has to wait for the grace to be over.
trap 'exit 143' TERM
sleep "${SECONDS_TO_TRAIN:-0}" &
wait $!
echo "$* seed=$SHOAL_SEED gpu=$NVIDIA_VISIBLE_DEVICES cuda=$CUDA_VISIBLE_DEVICES" >"$SHOAL_SAVE_PATH/result.txt"

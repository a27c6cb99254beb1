# The library and its programs.
#
#   docker build -t keras_transformer .
#   docker build -t keras_transformer:gpu --build-arg EXTRAS=gpu .
#   docker run --rm -i -v "$PWD/runs:/runs" keras_transformer kt-translate --model_dir=/runs/base < test.en
#   docker run --rm --gpus all -v "$PWD/runs:/runs" keras_transformer:gpu kt-train --help
#
# `-i` passes standard input on; without it a program that reads lines gets none.
# EXTRAS: extras of setup.py, comma-separated. `gpu` adds the CUDA libraries; the host
# needs NVIDIA's driver and container toolkit.
FROM python:3.11-slim

ARG EXTRAS=""

WORKDIR /opt/keras_transformer
COPY . .
RUN pip install --no-cache-dir -c constraints.txt ".${EXTRAS:+[$EXTRAS]}"

# Runs write to a mounted folder; nothing needs root.
RUN useradd --create-home --uid 1000 transformer
USER transformer
WORKDIR /runs

CMD ["kt-train", "--help"]

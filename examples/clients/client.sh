#!/bin/sh
# Translates lines with TensorFlow Serving, with curl.
#
#     echo "A dog runs." | sh examples/clients/client.sh localhost:8501 translation
#
# The arguments are the server's address and the name of the model. Prints the server's
# JSON; `| jq -r '.outputs.translation[]'` makes lines of it.

{
    printf '{"inputs": {"text": ['
    # Each line as a string of JSON.
    tr '\t' ' ' | sed 's/["\\]/\\&/g; s/.*/"&"/' | paste -s -d , -
    printf ']}}'
} | curl --silent --show-error --fail-with-body --data-binary @- \
    "http://$1/v1/models/$2:predict"

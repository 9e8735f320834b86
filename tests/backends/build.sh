#!/usr/bin/env bash
# Builds what tests/backends.rs starts into .cache/bin: the Collector, Jaeger, and a reader of
# docker-compose.yml.
# Takes minutes and about 4 GB of Go caches the first time; needs Go 1.25 or newer.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
bin="${RELAYPROOF_BACKENDS:-$here/../../.cache/bin}"
mkdir -p "$bin"
bin="$(cd "$bin" && pwd)"

build() { # FOLDER PACKAGE BINARY
  if [ -x "$bin/$3" ] && [ "$bin/$3" -nt "$here/$1/go.mod" ] && [ -z "$(find "$here/$1" -newer "$bin/$3" -name '*.go')" ]; then
    echo "$3: up to date"
    return
  fi
  echo "$3: building"
  (cd "$here/$1" && nice -n 19 go build -trimpath -buildvcs=false -ldflags='-s -w' -o "$bin/$3" "$2")
}

build collector . otelcol
build jaeger github.com/jaegertracing/jaeger/cmd/jaeger jaeger
build compose . compose-check

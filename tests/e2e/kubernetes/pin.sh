#!/bin/sh
# Pins a release of Kubernetes: writes go.mod and go.sum beside this script. Usage: ./pin.sh 1.34.4
#
# `k8s.io/kubernetes` asks for its staging modules at v0.0.0, which it finds in its own tree. Seen from outside they are
# modules of their own, released as v0.MINOR.PATCH, and only `replace` says so.
set -eu
cd "$(dirname "$0")"
version=${1:?usage: ./pin.sh VERSION, such as 1.34.4}
staging="v0.${version#1.}"
rm -f go.mod go.sum
go mod init shoal.test/kubernetes
# What Kubernetes itself is built and tested with: without it Go's newer defaults apply.
mod=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
sed -n 's/^go \(.*\)/\1/p; s/^godebug \(.*\)/\1/p' "$mod" | {
    read -r go
    read -r godebug || godebug=
    go mod edit -go="$go" ${godebug:+-godebug="$godebug"}
}
for module in $(sed -n 's/^[[:space:]]*\(k8s\.io\/[a-z-]*\) v0\.0\.0$/\1/p' "$mod"); do
    go mod edit -replace="$module=$module@$staging"
done
go mod edit -require="k8s.io/kubernetes@v$version"
go mod tidy

#!/bin/sh
# Run the benchmark of that name, or all. Each has a database and a broker of its own and ends with one JSON line.
cd "$(dirname "$0")/../.." || exit 1
failed=0
found=0

wanted=$(printf %s "${1:-*}" | tr - _) # `scale-out` is bench_scale_out.py
for file in tests/benchmarks/bench_$wanted.py; do
    [ -e "$file" ] || continue
    found=1
    name=$(basename "$file" .py)
    echo "== ${name#bench_}"
    .venvs/dev/bin/python -m infra.local with-services --durable -- .venvs/dev/bin/python -m "tests.benchmarks.$name" || failed=1
done

if [ $found = 0 ]; then
    echo "There is no benchmark called ${1:-anything} in tests/benchmarks." >&2
    exit 1
fi
exit $failed

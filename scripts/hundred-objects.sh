#!/bin/bash
# Builds a program of a hundred libraries in a folder, for scripts/bench.sh: each library needs three others, which the last of three directories of its own
# list has. The linker's names are short, nothing in it does anything.
#   scripts/hundred-objects.sh FOLDER
set -euo pipefail
mkdir -p "$1/lib" "$1/empty"
cd "$1/lib"
# shellcheck disable=SC2016  # the loader expands $ORIGIN
list='-Wl,-rpath,/nowhere:$ORIGIN/../empty:$ORIGIN'
echo 'int nothing;' >nothing.c
for ((number = 99; number >= 0; number--)); do
    needed=()
    for ((next = number * 3 + 1; next <= number * 3 + 3 && next < 100; next++)); do
        needed+=("$(printf 'lib%03d.so' "$next")")
    done
    name=$(printf 'lib%03d.so' "$number")
    cc -shared -fPIC -nostdlib -o "$name" nothing.c "-Wl,-soname,$name,--no-as-needed" "$list" "${needed[@]}"
done
# shellcheck disable=SC2016  # a register is no variable
echo 'void _start(void){ __asm__ volatile("mov $60,%eax; xor %edi,%edi; syscall"); }' >program.c
cc -nostdlib -fPIE -pie -o program program.c -Wl,--no-as-needed lib000.so "$list"

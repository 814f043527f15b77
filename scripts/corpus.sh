#!/bin/bash
# Unpacks the packages of fixtures/corpus.tsv, one folder each, as `dpkg-deb -x` makes it. Whoever runs tests on AMD's real libraries starts here.
#
#   scripts/corpus.sh [--require stable|all] [--list] [FOLDER]
#
# FOLDER defaults to $VROCM_CORPUS, else to .corpus in the checkout. A package comes from a local folder first ($VROCM_DEBS: folders separated by
# colons, searched to the bottom), then from apt, with lists and cache of its own: nothing under /etc or /var changes. The mirror is the one of this
# machine's own apt sources; $VROCM_MIRROR names another. Each file must have the checksum of the table, wherever it comes from.
#
# Stable packages stay in the archive; volatile ones go when a newer version comes, and their absence is said by name, with what will not be tested.
# Exit status: 0 all that is required is there (--require stable, the default: volatile ones may be missing) - 1 something is not - 2 usage.
# What is there already is kept; a run that was cut off goes on where it stopped.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
table=$root/fixtures/corpus.tsv

usage() {
    echo "usage: ${0##*/} [--require stable|all] [--list] [FOLDER]" >&2
    exit 2
}

require=stable
list=no
folder=${VROCM_CORPUS:-$root/.corpus}
while [ $# -gt 0 ]; do
    case $1 in
    --require)
        [ $# -ge 2 ] || usage
        require=$2
        shift
        ;;
    --require=*) require=${1#*=} ;;
    --list) list=yes ;;
    -*) usage ;;
    *) folder=$1 ;;
    esac
    shift
done
case $require in stable | all) ;; *) usage ;; esac

case $folder in /*) ;; *) folder=$PWD/$folder ;; esac # apt is run elsewhere
stamps=$folder/.sha256 # what each folder was unpacked from; written last, so that a stamp means whole
apt_home=$folder/.apt
debs=$folder/.debs # what apt delivered

say() { printf 'corpus: %s\n' "$*"; }

# The name of a package's file, and of its folder: a colon in a version is written %3a, as apt does.
file_name() { printf '%s_%s_%s' "$1" "${2//:/%3a}" "$3"; }

# Has the folder been unpacked from the file that the table pins?
is_unpacked() { [ -d "$folder/$1" ] && [ "$(cat "$stamps/$1" 2>/dev/null)" = "$2" ]; }

has_checksum() { [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$2" ]; }

# Prints the path of a file with that name and that checksum below the local folders. One with another checksum is named and passed over.
find_local() {
    local name=$1 sum=$2 place path
    local -a places
    IFS=: read -r -a places <<<"${VROCM_DEBS:-}:$debs"
    for place in "${places[@]}"; do
        [ -d "$place" ] || continue
        while IFS= read -r -d '' path; do
            if has_checksum "$path" "$sum"; then
                printf '%s' "$path"
                return 0
            fi
            say "$path: not the checksum of the table, passed over" >&2
        done < <(find "$place" -name "$name.deb" -type f -print0)
    done
    return 1
}

# Unpacks beside the target and renames: a folder is whole or not there.
unpack() {
    local name=$1 sum=$2 path=$3
    rm -rf "$folder/.part"
    if ! dpkg-deb -x "$path" "$folder/.part"; then
        say "$path: does not unpack" >&2
        return 1
    fi
    # A stamp of an older content must not stand beside a new folder, whatever instant this is cut off at.
    rm -rf "${stamps:?}/$name" "${folder:?}/$name"
    mv "$folder/.part" "$folder/$name"
    printf '%s\n' "$sum" >"$stamps/$name"
}

# The Debian mirror of this machine's own sources: the origin where lists have been fetched, the address where not.
mirror() {
    if [ -n "${VROCM_MIRROR:-}" ]; then
        printf '%s' "${VROCM_MIRROR%/}/"
        return
    fi
    # shellcheck disable=SC2016 # the variables are apt's
    apt-get indextargets --format '$(REPO_URI) $(COMPONENT) $(ORIGIN) $(CODENAME)' 2>/dev/null |
        awk '$2 == "main" && $4 !~ /-/ && ($3 == "Debian" || $1 ~ /\/debian\/$/) { print $1; exit }'
}

apt_private() {
    apt-get -o Dir::Etc::sourcelist="$apt_home/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferences=/dev/null \
        -o Dir::Etc::preferencesparts=/dev/null -o Dir::State::lists="$apt_home/lists" -o Dir::Cache="$apt_home/cache" \
        -o Dir::State::status="$apt_home/status" -o APT::Architecture=amd64 -o APT::Architectures=amd64 -o APT::Sandbox::User=root \
        -o Acquire::Languages=none -o Acquire::Retries=2 -q=2 "$@"
}

# Makes the private configuration for these suites and fetches their lists. A suite that fails is said; the others remain of use.
apt_prepare() {
    local uri keyring=/usr/share/keyrings/debian-archive-keyring.gpg suite
    command -v apt-get >/dev/null || { say 'apt-get is not here'; return 1; }
    uri=$(mirror)
    [ -n "$uri" ] || { say 'no Debian mirror among the apt sources; name one in VROCM_MIRROR'; return 1; }
    [ -r "$keyring" ] || { say "$keyring is missing (package debian-archive-keyring)"; return 1; }
    mkdir -p "$apt_home/lists/partial" "$apt_home/cache/archives/partial"
    : >"$apt_home/status"
    for suite in "$@"; do printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$uri" "$suite"; done >"$apt_home/sources.list"
    say "apt: lists of $*"
    apt_private update 2>"$apt_home/errors" || true
    grep '^[EW]:' "$apt_home/errors" | sed 's/^/corpus: apt: /' || true
}

# Downloads packages, each as name=version: all or none where one is not in the lists. apt checks them against the signed lists, find_local against the
# table.
apt_download() {
    (cd "$debs" && apt_private download "$@" >/dev/null 2>"$apt_home/errors")
}

[ -r "$table" ] || { say "$table: missing" >&2; exit 2; }
command -v dpkg-deb >/dev/null || { say 'dpkg-deb is not here (package dpkg)' >&2; exit 2; }

rows=()
while IFS= read -r row; do
    case $row in '#'* | '') continue ;; esac
    rows+=("$row")
done <"$table"

if [ "$list" = yes ]; then
    for row in "${rows[@]}"; do
        IFS=$'\t' read -r package version arch suite life sum what <<<"$row"
        state=missing
        is_unpacked "$(file_name "$package" "$version" "$arch")" "$sum" && state=there
        printf '%-8s %-9s %-13s %-26s %-34s %s\n' "$state" "$life" "$suite" "$package" "$version" "$what"
    done
    exit 0
fi

mkdir -p "$folder" "$stamps" "$debs"

# First what is there and what local folders have, then apt for the rest, so that the network is asked only where it must be.
there=0
unpacked=0
wanted=()
versions=()
for row in "${rows[@]}"; do
    IFS=$'\t' read -r package version arch suite life sum what <<<"$row"
    name=$(file_name "$package" "$version" "$arch")
    if is_unpacked "$name" "$sum"; then
        there=$((there + 1))
    elif path=$(find_local "$name" "$sum") && unpack "$name" "$sum" "$path"; then
        unpacked=$((unpacked + 1))
        say "unpacked $name"
    else
        wanted+=("$row")
        versions+=("$package=$version")
    fi
done

if [ ${#wanted[@]} -gt 0 ]; then
    mapfile -t suites < <(printf '%s\n' "${wanted[@]}" | cut -f4 | sort -u)
    ready=no
    if apt_prepare "${suites[@]}"; then
        ready=yes
        # One run of apt where all are to be had; the loop below asks for the rest one by one.
        apt_download "${versions[@]}" || true
    fi
fi

missing_stable=0
missing_volatile=0
: >"$folder/.missing" # volatile packages that cannot be had: tests skip what needs them and nothing else
for row in "${wanted[@]}"; do
    IFS=$'\t' read -r package version arch suite life sum what <<<"$row"
    name=$(file_name "$package" "$version" "$arch")
    path=$(find_local "$name" "$sum" 2>/dev/null) || { [ "$ready" = yes ] && apt_download "$package=$version" && path=$(find_local "$name" "$sum"); } || path=
    if [ -n "$path" ] && unpack "$name" "$sum" "$path"; then
        unpacked=$((unpacked + 1))
        say "unpacked $name ($suite)"
        continue
    fi
    say "MISSING $package $version ($life, $suite): not tested: $what"
    if [ "$life" = stable ]; then
        missing_stable=$((missing_stable + 1))
    else
        missing_volatile=$((missing_volatile + 1))
        printf '%s\n' "$name" >>"$folder/.missing"
    fi
done

say "$folder: $((there + unpacked)) of ${#rows[@]} packages ($there were there), missing: $missing_stable stable, $missing_volatile volatile"
[ $missing_stable -eq 0 ] || exit 1
[ "$require" = stable ] || [ $missing_volatile -eq 0 ] || exit 1

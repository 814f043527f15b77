#!/bin/bash
# deb.sh [PROFILE]: a Debian package of vrocm-audit and gfx-scan with manual pages, completions and licence, under target/debian/.
# Needs cargo-deb (cargo install --locked cargo-deb). Without PROFILE the release is packed; dev is quicker to try.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=${1:-release}
if ! cargo deb --version >/dev/null 2>&1; then
    echo "cargo-deb is missing: cargo install --locked cargo-deb" >&2
    exit 2
fi
cargo build --locked --profile "$profile" -p vrocm-audit
programs=target/$([ "$profile" = dev ] && echo debug || echo "$profile")
mkdir -p target/deb
for program in vrocm-audit gfx-scan; do
    "$programs/vrocm-audit" man "$program" >"target/deb/$program.1"
    "$programs/vrocm-audit" completions bash --program "$program" >"target/deb/$program.bash"
    "$programs/vrocm-audit" completions zsh --program "$program" >"target/deb/_$program"
    "$programs/vrocm-audit" completions fish --program "$program" >"target/deb/$program.fish"
done
# Debian's own form of a changelog, dated by the commit it is made of.
version=$(cargo pkgid -p vrocm-audit --locked | sed 's/.*[#@]//')
made=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
{
    printf 'vrocm-audit (%s-1) unstable; urgency=medium\n\n  * What changed is in /usr/share/doc/vrocm-audit/changelog.gz.\n\n' "$version"
    printf ' -- The vrocm-audit authors <vrocm-audit@users.noreply.github.com>  %s\n' "$(LC_ALL=C date -u -R -d "@$made")"
} >target/deb/changelog
cargo deb --locked --no-build --profile "$profile" -p vrocm-audit

//! `$ORIGIN`, `$LIB`, `$PLATFORM` (`is_dst` and `_dl_dst_substitute` in `elf/dl-load.c`).

/// What the tokens stand for; `None` for what has no value.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    /// Directory of the object that holds the string.
    pub origin: Option<&'a str>,
    /// Compiled into the loader.
    pub lib: Option<&'a str>,
    /// Name of the CPU.
    pub platform: Option<&'a str>,
}

/// Length of a token after its `$`; 0 where it is none of this name.
fn token(input: &str, name: &str) -> usize {
    if let Some(rest) = input.strip_prefix('{') {
        return if rest.strip_prefix(name).is_some_and(|after| after.starts_with('}')) { name.len() + 2 } else { 0 };
    }
    match input.strip_prefix(name) {
        Some(after) if !after.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_') => name.len(),
        _ => 0,
    }
}

/// True where a token of this name stands in the text.
pub fn mentions(input: &str, name: &str) -> bool {
    input.match_indices('$').any(|(at, _)| token(&input[at + 1..], name) != 0)
}

/// Expands; `None` where a token has no value, and the loader discards the string. What is no token stays as it is.
pub fn expand(input: &str, values: &Values<'_>) -> Option<String> {
    let mut text = String::with_capacity(input.len());
    let mut rest = input;
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let known = [("ORIGIN", values.origin), ("PLATFORM", values.platform), ("LIB", values.lib)];
        match known.into_iter().map(|(name, value)| (token(rest, name), value)).find(|&(len, _)| len != 0) {
            Some((len, value)) => {
                text.push_str(value?);
                rest = &rest[len..];
            }
            None => text.push('$'),
        }
    }
    text.push_str(rest);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::{Values, expand, mentions};

    const VALUES: Values<'static> = Values { origin: Some("/o"), lib: Some("lib64"), platform: None };

    #[test]
    fn l2_origin_token_boundary() {
        let text = |input| expand(input, &VALUES);
        assert_eq!(text("$ORIGIN_extra").as_deref(), Some("$ORIGIN_extra"));
        assert_eq!(text("${ORIGIN}_extra").as_deref(), Some("/o_extra"));
        assert_eq!(text("$ORIGIN/../lib:$ORIGIN").as_deref(), Some("/o/../lib:/o"));
        assert_eq!(text("${ORIGIN").as_deref(), Some("${ORIGIN"));
    }

    #[test]
    fn l3_other_tokens() {
        assert_eq!(expand("/usr/$LIB/x", &VALUES).as_deref(), Some("/usr/lib64/x"));
        assert_eq!(expand("/usr/$PLATFORM/x", &VALUES), None);
        assert!(mentions("/a/${PLATFORM}", "PLATFORM") && !mentions("/a/$PLATFORMS", "PLATFORM"));
    }
}

//! `FlatBuffers`' JSON dialect, which rocjitsu's configurations are written in: JSON with comments, trailing commas, bare keys, single quotes and
//! hexadecimal integers. A small reader of its own, since JSON5 differs (it takes numbers like `+.5` and line continuations, and no `0x` in quotes).
//!
//! Bounded: [`LARGEST`] bytes, [`DEEPEST`] levels. An error names line and column.

use serde_json::{Map, Number, Value};

/// Largest text that is read, in bytes; shipped configurations take a few kB.
pub const LARGEST: usize = 4 << 20;
/// Deepest nesting; `FlatBuffers`' own bound is 64.
pub const DEEPEST: usize = 64;

/// Why a text is not of the dialect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct BadText {
    /// From 1.
    pub line: usize,
    /// In bytes, from 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: String,
}

/// Reads one value and nothing after it.
pub fn parse(text: &str) -> Result<Value, BadText> {
    let mut reader = Reader { text, at: 0 };
    if text.len() > LARGEST {
        return Err(reader.error(format!("{} bytes, {LARGEST} at most are read", text.len())));
    }
    let value = reader.value(0)?;
    reader.skip()?;
    if reader.at < text.len() {
        return Err(reader.error("something follows the value"));
    }
    Ok(value)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn error(&self, problem: impl Into<String>) -> BadText {
        let before = &self.text.as_bytes()[..self.at];
        let line = before.split(|&byte| byte == b'\n').count();
        let column = self.at - before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1) + 1;
        BadText { line, column, problem: problem.into() }
    }

    /// Passes over blanks and comments.
    fn skip(&mut self) -> Result<(), BadText> {
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            self.at += blanks;
            let rest = self.rest();
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let Some(end) = rest.find("*/") else { return Err(self.error("a comment has no end")) };
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn take(&mut self, byte: char) -> bool {
        let found = self.rest().starts_with(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Result<Value, BadText> {
        if depth > DEEPEST {
            return Err(self.error(format!("nested more than {DEEPEST} levels deep")));
        }
        self.skip()?;
        match self.rest().chars().next() {
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            Some('"' | '\'') => self.string().map(Value::String),
            Some(_) => self.scalar(),
            None => Err(self.error("a value is missing: the text ends")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, BadText> {
        self.at += 1;
        let mut fields = Map::new();
        loop {
            self.skip()?;
            if self.take('}') {
                return Ok(Value::Object(fields));
            }
            let key = if self.rest().starts_with(['"', '\'']) { self.string()? } else { self.word()?.to_owned() };
            self.skip()?;
            if !self.take(':') {
                return Err(self.error(format!("a colon has to follow the key {key:?}")));
            }
            let value = self.value(depth + 1)?;
            if fields.contains_key(&key) {
                return Err(self.error(format!("the key {key:?} is given twice")));
            }
            fields.insert(key, value);
            self.separator('}')?;
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, BadText> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip()?;
            if self.take(']') {
                return Ok(Value::Array(items));
            }
            items.push(self.value(depth + 1)?);
            self.separator(']')?;
        }
    }

    fn separator(&mut self, end: char) -> Result<(), BadText> {
        self.skip()?;
        if self.take(',') || self.rest().starts_with(end) { Ok(()) } else { Err(self.error(format!("a comma or {end} is missing"))) }
    }

    /// A bare key, number or name.
    fn word(&mut self) -> Result<&'t str, BadText> {
        let rest = self.rest();
        let end = rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || "_+-.".contains(letter))).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.error("a key or value is missing"));
        }
        self.at += end;
        Ok(&rest[..end])
    }

    fn scalar(&mut self) -> Result<Value, BadText> {
        let start = self.at;
        let word = self.word()?;
        Ok(match word {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "null" => Value::Null,
            _ if word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') => Value::String(word.to_owned()),
            _ => {
                let Some(number) = number(word) else {
                    self.at = start;
                    return Err(self.error(format!("{word:?} is no number")));
                };
                Value::Number(number)
            }
        })
    }

    fn string(&mut self) -> Result<String, BadText> {
        let start = self.at;
        let quote = self.rest().chars().next().unwrap_or('"');
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(letter) = self.rest().chars().next() else {
                self.at = start;
                return Err(self.error("a string has no end"));
            };
            self.at += letter.len_utf8();
            match letter {
                _ if letter == quote => return Ok(text),
                '\\' => text.push(self.escape()?),
                _ if letter < ' ' => return Err(self.error("a control character stands in a string")),
                _ => text.push(letter),
            }
        }
    }

    fn escape(&mut self) -> Result<char, BadText> {
        let Some(letter) = self.rest().chars().next() else { return Err(self.error("a string has no end")) };
        self.at += letter.len_utf8();
        match letter {
            'n' => Ok('\n'),
            't' => Ok('\t'),
            'r' => Ok('\r'),
            'b' => Ok('\u{8}'),
            'f' => Ok('\u{c}'),
            '"' | '\'' | '\\' | '/' => Ok(letter),
            'u' => self.unicode(),
            _ => Err(self.error(format!("\\{letter} is no escape"))),
        }
    }

    fn unicode(&mut self) -> Result<char, BadText> {
        let high = self.hex4()?;
        let code = if (0xd800..0xdc00).contains(&high) {
            if !self.rest().starts_with("\\u") {
                return Err(self.error("half a surrogate pair"));
            }
            self.at += 2;
            let low = self.hex4()?;
            if !(0xdc00..0xe000).contains(&low) {
                return Err(self.error("half a surrogate pair"));
            }
            0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)
        } else {
            high
        };
        char::from_u32(code).ok_or_else(|| self.error("an escape names no character"))
    }

    fn hex4(&mut self) -> Result<u32, BadText> {
        let digits = self.rest().get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let Some(digits) = digits else { return Err(self.error("four hexadecimal digits have to follow \\u")) };
        self.at += 4;
        u32::from_str_radix(digits, 16).map_err(|_| self.error("no hexadecimal number"))
    }
}

/// Decimal or hexadecimal, with a sign.
fn number(word: &str) -> Option<Number> {
    let (negative, digits) = match word.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, word.strip_prefix('+').unwrap_or(word)),
    };
    let integer = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) if hex.bytes().all(|byte| byte.is_ascii_hexdigit()) => u64::from_str_radix(hex, 16).ok(),
        Some(_) => return None,
        None if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok(),
        None => None,
    };
    match integer {
        Some(integer) if !negative => Some(integer.into()),
        Some(integer) => i64::try_from(integer).ok().map(|integer| (-integer).into()),
        None => word.parse().ok().and_then(Number::from_f64),
    }
}

/// An unsigned number as `FlatBuffers` takes it for an integer field: a number, one in quotes, or true and false.
pub fn unsigned(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::Bool(on) => Some(u64::from(*on)),
        Value::String(text) => number(text)?.as_u64(),
        Value::Null => Some(0),
        Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::{DEEPEST, LARGEST, parse, unsigned};

    #[test]
    fn comments_trailing_commas_bare_keys_and_quotes() {
        let text = "// head\n{ vm: { /* inner */ 'gpu': [1, 0x10, -2, 1.5,], kind: simulator, on: true, none: null, }, }";
        assert_eq!(parse(text), Ok(json!({"vm": {"gpu": [1, 16, -2, 1.5], "kind": "simulator", "on": true, "none": null}})));
        assert_eq!(parse("[1, ]"), Ok(json!([1])));
        assert_eq!(parse("[ ]"), Ok(json!([])));
        assert_eq!(parse(r#"{"a": "\u0041\n\ud83d\ude00"}"#), Ok(json!({"a": "A\n😀"})));
        assert_eq!(parse(r#"["\t\r\b\f\/\\\"\'"]"#), Ok(json!(["\t\r\u{8}\u{c}/\\\"'"])));
    }

    #[test]
    fn errors_say_where() {
        for (text, place) in [
            ("", (1, 1)),
            ("{\n  a 1}", (2, 5)),
            ("{a: 1 b: 2}", (1, 7)),
            ("[1, 2", (1, 6)),
            ("{a: \"x", (1, 5)),
            ("{a: 1} x", (1, 8)),
            ("/* x", (1, 1)),
            ("{a: 12x}", (1, 5)),
            ("[,]", (1, 2)),
            ("{: 1}", (1, 2)),
            ("[0x+1]", (1, 2)),
            ("[++5]", (1, 2)),
            ("['\u{1}']", (1, 4)),
            (r#"["\ud83d"]"#, (1, 9)),
            (r#"["\ud83d\n"]"#, (1, 9)),
            (r#"["\ud83d\u0041"]"#, (1, 15)),
            (r#"["\udc00"]"#, (1, 9)),
            (r#"["\q"]"#, (1, 5)),
        ] {
            let bad = parse(text).expect_err(text);
            assert_eq!((bad.line, bad.column), place, "{text:?}: {bad}");
        }
        assert!(parse("{a: 1, a: 2}").is_err(), "a key given twice says nothing certain");
    }

    #[test]
    fn depth_is_bounded() {
        assert!(parse(&("[".repeat(DEEPEST) + &"]".repeat(DEEPEST))).is_ok());
        assert!(parse(&"[".repeat(100_000)).expect_err("deep").problem.contains("deep"));
        let deep = |open: &str, levels: usize, close: &str| parse(&(open.repeat(levels) + "1" + &close.repeat(levels)));
        assert!(deep("[", DEEPEST, "]").is_ok() && deep("{a:", DEEPEST, "}").is_ok());
        assert!(deep("[", DEEPEST + 1, "]").expect_err("deep").problem.contains("deep"));
        assert!(deep("{a:", 100_000, "}").expect_err("deep").problem.contains("deep"));
        assert!(parse(&" ".repeat(LARGEST)).expect_err("blank").problem.contains("ends"));
        assert!(parse(&" ".repeat(LARGEST + 1)).expect_err("large").problem.contains("at most"));
    }

    #[test]
    fn integers_as_flatbuffers_takes_them() {
        assert_eq!(unsigned(&json!("0x10")), Some(16));
        assert_eq!(unsigned(&json!("90402")), Some(90402));
        assert_eq!(unsigned(&json!(true)), Some(1));
        assert_eq!(unsigned(&json!("simulator")), None);
        assert_eq!(unsigned(&json!(-1)), None);
    }

    proptest! {
        #[test]
        fn what_is_json_reads_the_same(numbers: Vec<i32>, text in "[ -~]{0,12}") {
            let value = json!({"numbers": numbers, "text": text});
            prop_assert_eq!(parse(&value.to_string()), Ok(value));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[\\[\\]{}:,a-f0-9\"'/*\\\\ \\nu.é-]{0,40}") {
            let _ = parse(&text);
        }
    }
}

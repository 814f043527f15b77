//! Insertions and replacements in one source text, and where each mutant ended up in what comes out.

use std::ops::Range;

/// A piece of text that belongs to one mutant, or to the switch around several.
pub type Piece = (Option<u32>, String);

/// At one place comes first what ends there. What starts there starts from the outside in, and an operator that is replaced after its own switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Close,
    Open,
    Replace,
}

#[derive(Debug)]
struct Edit {
    at: usize,
    side: Side,
    /// Outer switches open first and close last.
    rank: i64,
    until: usize,
    pieces: Vec<Piece>,
    site: usize,
}

/// The edits of one file.
#[derive(Debug, Default)]
pub struct Edits {
    edits: Vec<Edit>,
    sites: Vec<Vec<u32>>,
}

/// What a range of the written text belongs to.
#[derive(Debug)]
pub struct Place {
    pub range: Range<usize>,
    pub mutants: Vec<u32>,
}

impl Edits {
    /// One switch that stands before what it is about.
    pub fn insert(&mut self, at: usize, pieces: Vec<Piece>, mutants: Vec<u32>) {
        let site = self.sites.len();
        self.sites.push(mutants);
        self.edits.push(Edit { at, side: Side::Open, rank: site as i64, until: at, pieces, site });
    }

    /// One switch: `open` before `range`, `close` after it, and replacements inside it. `mutants` are all that it switches.
    pub fn wrap(&mut self, range: Range<usize>, open: &str, inside: Vec<(Range<usize>, String)>, close: Vec<Piece>, mutants: Vec<u32>) {
        let site = self.sites.len();
        let rank = site as i64;
        self.sites.push(mutants);
        let mut add = |at, until, side, rank, pieces| self.edits.push(Edit { at, side, rank, until, pieces, site });
        add(range.start, range.start, Side::Open, rank, vec![(None, open.to_string())]);
        add(range.end, range.end, Side::Close, -rank, close);
        for (range, text) in inside {
            add(range.start, range.end, Side::Replace, rank, vec![(None, text)]);
        }
    }

    /// The text with all edits, and for each switch and each piece of a mutant where it is.
    pub fn apply(mut self, source: &str) -> (String, Vec<Place>) {
        self.edits.sort_by_key(|edit| (edit.at, edit.side != Side::Close, edit.rank, edit.side));
        let mut text = String::with_capacity(source.len() * 2);
        let mut places = Vec::new();
        let mut starts = vec![0; self.sites.len()];
        let mut copied = 0;
        for edit in &self.edits {
            text.push_str(&source[copied..edit.at]);
            copied = edit.until.max(copied);
            if edit.side == Side::Open {
                starts[edit.site] = text.len();
            }
            for (mutant, piece) in &edit.pieces {
                let start = text.len();
                text.push_str(piece);
                places.extend(mutant.map(|mutant| Place { range: start..text.len(), mutants: vec![mutant] }));
            }
            if edit.side == Side::Close {
                places.push(Place { range: starts[edit.site]..text.len(), mutants: self.sites[edit.site].clone() });
            }
        }
        text.push_str(&source[copied..]);
        (text, places)
    }
}

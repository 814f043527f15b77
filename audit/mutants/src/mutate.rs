//! Which mutants a source file has: bodies replaced by a value, operators by others, arms and statements left out, conditions turned round.

use std::collections::BTreeSet;
use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Pat, ReturnType, Stmt, Type};

use crate::edit::{Edits, Piece};
use crate::values::{Enums, values};

/// One change of the source.
#[derive(Debug, Clone)]
pub struct Mutant {
    pub number: u32,
    pub file: String,
    pub line: usize,
    /// Modules, types and functions around it.
    pub within: String,
    /// What is changed, in words.
    pub change: String,
    /// The lowest number of the mutants behind the same switch: whether a test gets there is known by switch.
    pub site: u32,
}

/// Methods whose closure answers yes or no.
const ASKING: &[&str] =
    &["filter", "any", "all", "find", "position", "rposition", "take_while", "skip_while", "retain", "is_some_and", "is_none_or", "is_ok_and"];

/// Reads files one after another and numbers what it finds.
pub struct Mutator<'a> {
    pub enums: &'a Enums,
    /// Numbers that do not compile.
    pub skipped: &'a BTreeSet<u32>,
    pub mutants: Vec<Mutant>,
    /// Functions that are evaluated by the compiler, where nothing can be switched.
    pub constant: Vec<String>,
    file: String,
    source: String,
    edits: Edits,
    within: Vec<String>,
}

impl<'a> Mutator<'a> {
    pub fn new(enums: &'a Enums, skipped: &'a BTreeSet<u32>) -> Self {
        Self {
            enums,
            skipped,
            mutants: Vec::new(),
            constant: Vec::new(),
            file: String::new(),
            source: String::new(),
            edits: Edits::default(),
            within: Vec::new(),
        }
    }

    /// The edits of one file.
    pub fn file(&mut self, name: &str, source: &str) -> syn::Result<Edits> {
        self.file = name.to_string();
        self.source = source.to_string();
        self.visit_file(&syn::parse_file(source)?);
        Ok(std::mem::take(&mut self.edits))
    }

    fn text(&self, range: Range<usize>) -> &str {
        &self.source[range]
    }

    fn short(&self, range: Range<usize>) -> String {
        let text = self.text(range).split_whitespace().collect::<Vec<_>>().join(" ");
        if text.chars().count() <= 80 { text } else { text.chars().take(77).collect::<String>() + "..." }
    }

    /// Numbers the changes of one switch and returns those that are to be written, with its site.
    fn number(&mut self, at: Span, changes: impl IntoIterator<Item = (String, String)>) -> (u32, Vec<(u32, String)>) {
        let site = self.mutants.len() as u32 + 1;
        let mut written = Vec::new();
        for (change, code) in changes {
            let number = self.mutants.len() as u32 + 1;
            let (file, line, within) = (self.file.clone(), at.start().line, self.within.join("::"));
            self.mutants.push(Mutant { number, file, line, within, change, site });
            if !self.skipped.contains(&number) {
                written.push((number, code));
            }
        }
        (site, written)
    }

    /// A switch with an arm per change: `before` and what the range holds come first.
    fn arms(
        &mut self,
        range: Range<usize>,
        open: &str,
        inside: Vec<(Range<usize>, String)>,
        head: &str,
        numbered: (u32, Vec<(u32, String)>),
        rest: &str,
    ) {
        let (site, written) = numbered;
        if written.is_empty() {
            return;
        }
        let numbers = written.iter().map(|(number, _)| *number).collect();
        let mut close: Vec<Piece> = vec![(None, format!("{head}match crate::mutant::at({site}) {{ "))];
        close.extend(written.into_iter().map(|(number, code)| (Some(number), format!("{number} => {code}, "))));
        close.push((None, rest.to_string()));
        self.edits.wrap(range, open, inside, close, numbers);
    }

    /// A condition that is turned round.
    fn turn(&mut self, expr: &Expr) {
        let range = expr.span().byte_range();
        let change = format!("turn round `{}`", self.short(range.clone()));
        let (site, written) = self.number(expr.span(), [(change, String::new())]);
        if let [(number, _)] = written[..] {
            self.edits.wrap(range, "((", vec![], vec![(None, format!(") != (crate::mutant::at({site}) == {number}))"))], vec![number]);
        }
    }

    /// A condition among several that is taken for true.
    fn grant(&mut self, expr: &Expr) {
        let range = expr.span().byte_range();
        let change = format!("take `{}` for true", self.short(range.clone()));
        let (site, written) = self.number(expr.span(), [(change, String::new())]);
        if let [(number, _)] = written[..] {
            self.edits.wrap(range, &format!("(crate::mutant::at({site}) == {number} || ("), vec![], vec![(None, "))".to_string())], vec![number]);
        }
    }

    fn body(&mut self, output: &ReturnType, block: &syn::Block) {
        if block.stmts.is_empty() {
            return;
        }
        let inner = block.brace_token.span.open().byte_range().end..block.brace_token.span.close().byte_range().start;
        let name = self.within.last().cloned().unwrap_or_default();
        if let ReturnType::Type(_, ty) = output
            && let Type::ImplTrait(_) = &**ty
        {
            let changes = [0, 1].map(|count| (format!("take {count} of what {name} returns"), format!("{count}")));
            let numbered = self.number(block.span(), changes);
            self.arms(inner, "std::iter::Iterator::take({ ", vec![], " }, ", numbered, "_ => usize::MAX })");
            return;
        }
        let values = match output {
            ReturnType::Default => vec![String::new()],
            ReturnType::Type(_, ty) => values(ty, self.enums),
        };
        let whole: String = self.text(inner.clone()).split_whitespace().collect();
        let changes: Vec<_> = values
            .into_iter()
            .filter(|value| value.split_whitespace().collect::<String>() != whole)
            .map(|value| {
                let change = if value.is_empty() { format!("replace {name} by nothing") } else { format!("replace {name} by {value}") };
                (change, format!("return {value}"))
            })
            .collect();
        let (site, written) = self.number(block.span(), changes);
        if written.is_empty() {
            return;
        }
        let numbers: Vec<u32> = written.iter().map(|(number, _)| *number).collect();
        let mut pieces: Vec<Piece> = vec![(None, format!(" match crate::mutant::at({site}) {{ "))];
        pieces.extend(written.into_iter().map(|(number, code)| (Some(number), format!("{number} => {code}, "))));
        pieces.push((None, "_ => {} } ".to_string()));
        self.edits.insert(inner.start, pieces, numbers);
    }

    fn function(&mut self, signature: &syn::Signature, attributes: &[syn::Attribute], block: &syn::Block) {
        if is_test(attributes) {
            return;
        }
        self.within.push(signature.ident.to_string());
        if signature.constness.is_some() {
            self.constant.push(format!("{} {}", self.file, self.within.join("::")));
        } else {
            self.body(&signature.output, block);
            visit::visit_block(self, block);
        }
        self.within.pop();
    }

    fn binary(&mut self, binary: &syn::ExprBinary) {
        let range = binary.span().byte_range();
        let op = binary.op.span().byte_range();
        let (written, others) = operators(&binary.op);
        let shown = self.short(range.clone());
        let changes = |code: &dyn Fn(&str) -> String| {
            others.iter().map(|other| (format!("{written} to {other} in `{shown}`"), code(other))).collect::<Vec<_>>()
        };
        match &binary.op {
            BinOp::And(_) if has_let(&binary.left) || has_let(&binary.right) => {
                for side in [&binary.left, &binary.right] {
                    if !has_let(side) && !matches!(&**side, Expr::Binary(_)) {
                        self.grant(side);
                    }
                }
            }
            BinOp::And(_) | BinOp::Or(_) => {
                let (site, written) = self.number(binary.span(), changes(&|_| String::new()));
                if let [(number, _)] = written[..] {
                    let switched = format!("(crate::mutant::at({site}) == {number})");
                    let (middle, close) = if matches!(binary.op, BinOp::And(_)) {
                        (format!("; if __l != {switched} {{ "), " } else { __l } })")
                    } else {
                        (format!("; if __l != {switched} {{ __l }} else {{ "), " } })")
                    };
                    self.edits.wrap(range, "({ let __l: bool = ", vec![(op, middle)], vec![(None, close.to_string())], vec![number]);
                }
            }
            BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) => {
                let numbered = self.number(binary.span(), changes(&|other| format!("__l {other} __r")));
                let rest = format!("_ => __l {written} __r }} }})");
                self.arms(range, "(match (&(", vec![(op, "), &(".to_string())], ")) { (__l, __r) => ", numbered, &rest);
            }
            BinOp::Add(_)
            | BinOp::Sub(_)
            | BinOp::Mul(_)
            | BinOp::Div(_)
            | BinOp::Rem(_)
            | BinOp::Shl(_)
            | BinOp::Shr(_)
            | BinOp::BitAnd(_)
            | BinOp::BitOr(_)
            | BinOp::BitXor(_) => {
                let numbered = self.number(binary.span(), changes(&|other| format!("__l {other} __r")));
                let rest = format!("_ => __l {written} __r }} }})");
                self.arms(range, "(match (", vec![(op, ", ".to_string())], ") { (__l, __r) => ", numbered, &rest);
            }
            _ => {
                let left = binary.left.span().byte_range();
                let place = self.text(left.clone()).to_string();
                let numbered = self.number(binary.span(), changes(&|other| format!("{place} {other} __r")));
                let rest = format!("_ => {place} {written} __r }} }})");
                // The place is written again in each arm.
                self.arms(range, "(match (", vec![(left.start..op.end, String::new())], ") { __r => ", numbered, &rest);
            }
        }
    }

    /// Alternatives of `matches!` are left out, or the answer of its only one is turned round.
    fn alternatives(&mut self, expr: &Expr, mac: &syn::Macro) {
        let Ok(Asked { scrutinee, pattern, guard }) = mac.parse_body::<Asked>() else { return self.turn(expr) };
        let Pat::Or(cases) = &pattern else { return self.turn(expr) };
        let guard = guard.map(|guard| format!("({}) && ", self.text(guard.span().byte_range()))).unwrap_or_default();
        let changes: Vec<_> = cases
            .cases
            .iter()
            .map(|case| {
                (format!("leave `{}` out of matches!", self.short(case.span().byte_range())), self.text(case.span().byte_range()).to_string())
            })
            .collect();
        let (site, written) = self.number(expr.span(), changes.clone());
        if written.is_empty() {
            return;
        }
        let numbers = written.iter().map(|(number, _)| *number).collect();
        let mut pieces: Vec<Piece> = vec![(None, format!("(match {} {{ ", self.text(scrutinee.span().byte_range())))];
        for (index, (_, case)) in changes.iter().enumerate() {
            let number = site + index as u32;
            pieces.push((Some(number), format!("{case} if {guard}crate::mutant::at({site}) != {number} => true, ")));
        }
        pieces.push((None, "_ => false })".to_string()));
        let range = expr.span().byte_range();
        self.edits.wrap(range.clone(), "", vec![(range, String::new())], pieces, numbers);
    }

    fn arm(&mut self, arm: &syn::Arm, deletable: bool) {
        let pattern = arm.pat.span().byte_range();
        let shown = self.short(pattern.clone());
        match &arm.guard {
            None if deletable => {
                let (site, written) = self.number(arm.pat.span(), [(format!("leave the arm `{shown}` out"), String::new())]);
                if let [(number, _)] = written[..] {
                    self.edits.wrap(pattern, "", vec![], vec![(None, format!(" if crate::mutant::at({site}) != {number}"))], vec![number]);
                }
            }
            Some((_, guard)) if !has_let(guard) => {
                let range = guard.span().byte_range();
                let text = self.short(range.clone());
                let ways = ["true", "false"].map(|value| (format!("take the guard `{text}` of `{shown}` for {value}"), value.to_string()));
                let numbered = self.number(guard.span(), ways);
                self.arms(range, "({ let __g: bool = ", vec![], "; ", numbered, "_ => __g } })");
            }
            _ => {}
        }
    }
}

/// The arguments of `matches!`.
struct Asked {
    scrutinee: Expr,
    pattern: Pat,
    guard: Option<Expr>,
}

impl syn::parse::Parse for Asked {
    fn parse(input: syn::parse::ParseStream) -> syn::Result<Self> {
        let scrutinee = input.parse()?;
        input.parse::<syn::Token![,]>()?;
        let pattern = Pat::parse_multi_with_leading_vert(input)?;
        let guard = if input.parse::<Option<syn::Token![if]>>()?.is_some() { Some(input.parse()?) } else { None };
        input.parse::<Option<syn::Token![,]>>()?;
        Ok(Self { scrutinee, pattern, guard })
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || matches!(&attribute.meta, syn::Meta::List(list) if list.path.is_ident("cfg") && list.tokens.to_string() == "test")
    })
}

/// An operator as written, and what replaces it.
fn operators(op: &BinOp) -> (&'static str, &'static [&'static str]) {
    match op {
        BinOp::Add(_) => ("+", &["-", "*"]),
        BinOp::Sub(_) => ("-", &["+", "/"]),
        BinOp::Mul(_) => ("*", &["+", "/"]),
        BinOp::Div(_) => ("/", &["%", "*"]),
        BinOp::Rem(_) => ("%", &["/", "+"]),
        BinOp::And(_) => ("&&", &["||"]),
        BinOp::Or(_) => ("||", &["&&"]),
        BinOp::BitXor(_) => ("^", &["|", "&"]),
        BinOp::BitAnd(_) => ("&", &["|", "^"]),
        BinOp::BitOr(_) => ("|", &["&", "^"]),
        BinOp::Shl(_) => ("<<", &[">>"]),
        BinOp::Shr(_) => (">>", &["<<"]),
        BinOp::Eq(_) => ("==", &["!="]),
        BinOp::Ne(_) => ("!=", &["=="]),
        BinOp::Lt(_) => ("<", &["<=", "==", ">"]),
        BinOp::Le(_) => ("<=", &["<", ">"]),
        BinOp::Gt(_) => (">", &[">=", "==", "<"]),
        BinOp::Ge(_) => (">=", &[">", "<"]),
        BinOp::AddAssign(_) => ("+=", &["-=", "*="]),
        BinOp::SubAssign(_) => ("-=", &["+=", "/="]),
        BinOp::MulAssign(_) => ("*=", &["+=", "/="]),
        BinOp::DivAssign(_) => ("/=", &["%=", "*="]),
        BinOp::RemAssign(_) => ("%=", &["/=", "+="]),
        BinOp::BitXorAssign(_) => ("^=", &["|=", "&="]),
        BinOp::BitAndAssign(_) => ("&=", &["|="]),
        BinOp::BitOrAssign(_) => ("|=", &["&="]),
        BinOp::ShlAssign(_) => ("<<=", &[">>="]),
        BinOp::ShrAssign(_) => (">>=", &["<<="]),
        _ => ("", &[]),
    }
}

/// `let` as a condition, alone or among others.
fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// A condition that no operator inside it turns round.
fn is_plain(expr: &Expr) -> bool {
    matches!(expr, Expr::Call(_) | Expr::MethodCall(_) | Expr::Field(_) | Expr::Path(_))
}

/// Looks for closures in what the compiler evaluates.
struct Closures<'m, 'a>(&'m mut Mutator<'a>);

impl<'ast> Visit<'ast> for Closures<'_, '_> {
    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        self.0.visit_expr(&closure.body);
    }
}

impl<'ast> Visit<'ast> for Mutator<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test(&module.attrs) {
            self.within.push(module.ident.to_string());
            visit::visit_item_mod(self, module);
            self.within.pop();
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let name = |path: &syn::Path| path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        let of = if let Type::Path(path) = &*item.self_ty { name(&path.path) } else { String::new() };
        self.within.push(item.trait_.as_ref().map_or(of.clone(), |(_, path, _)| format!("{} for {of}", name(path))));
        visit::visit_item_impl(self, item);
        self.within.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.attrs, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.attrs, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, &item.attrs, block);
        }
    }

    // What the compiler evaluates cannot ask which mutant is on.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    // But the closures in it run later: a rule is one.
    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.within.push(item.ident.to_string());
        Closures(self).visit_expr(&item.expr);
        self.within.pop();
    }
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        let Some(init) = &local.init else { return };
        self.visit_expr(&init.expr);
        // Its last statement has to leave, or nothing compiles.
        if let Some((_, otherwise)) = &init.diverge
            && let Expr::Block(block) = &**otherwise
            && let [before @ .., last] = block.block.stmts.as_slice()
        {
            before.iter().for_each(|stmt| self.visit_stmt(stmt));
            visit::visit_stmt(self, last);
        }
    }

    fn visit_stmt(&mut self, stmt: &'ast Stmt) {
        let plain = |expr: &Expr| {
            matches!(
                expr,
                Expr::MethodCall(_) | Expr::Call(_) | Expr::Try(_) | Expr::Assign(_) | Expr::Return(_) | Expr::Break(_) | Expr::Continue(_)
            )
        };
        if let Stmt::Expr(expr, Some(_)) = stmt
            && plain(expr)
        {
            let range = stmt.span().byte_range();
            let change = format!("leave `{}` out", self.short(range.clone()));
            let (site, written) = self.number(stmt.span(), [(change, String::new())]);
            if let [(number, _)] = written[..] {
                self.edits.wrap(
                    range,
                    &format!("if crate::mutant::at({site}) != {number} {{ "),
                    vec![],
                    vec![(None, " }".to_string())],
                    vec![number],
                );
            }
        }
        visit::visit_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Binary(binary) => {
                self.binary(binary);
                if !operators(&binary.op).0.ends_with('=') || matches!(binary.op, BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Le(_) | BinOp::Ge(_)) {
                    visit::visit_expr(self, expr);
                } else {
                    self.visit_expr(&binary.right);
                }
                return;
            }
            Expr::Unary(unary) if !matches!(unary.op, syn::UnOp::Deref(_)) => {
                let (sign, range) = (unary.op.span().byte_range(), unary.span().byte_range());
                let (text, shown) = (self.text(sign.clone()).to_string(), self.short(range.clone()));
                let numbered = self.number(unary.span(), [(format!("leave {text} out of `{shown}`"), "__v".to_string())]);
                self.arms(range, "(match (", vec![(sign, String::new())], ") { __v => ", numbered, &format!("_ => {text}__v }} }})"));
            }
            Expr::If(condition) if is_plain(&condition.cond) => self.turn(&condition.cond),
            Expr::While(condition) if is_plain(&condition.cond) => self.turn(&condition.cond),
            Expr::Macro(mac) if mac.mac.path.is_ident("matches") => self.alternatives(expr, &mac.mac),
            Expr::MethodCall(call) if ASKING.contains(&call.method.to_string().as_str()) => {
                if let Some(Expr::Closure(closure)) = call.args.last()
                    && is_plain(&closure.body)
                {
                    self.turn(&closure.body);
                }
            }
            Expr::Match(choice) => {
                let rest = choice.arms.last().is_some_and(|arm| matches!(arm.pat, Pat::Wild(_)) && arm.guard.is_none());
                let count = choice.arms.len();
                for (index, arm) in choice.arms.iter().enumerate() {
                    self.arm(arm, rest && index + 1 < count);
                }
            }
            _ => {}
        }
        visit::visit_expr(self, expr);
    }
}

//! What a function could return instead of what it returns: a few values for its type, as source text.

use std::collections::BTreeMap;

use quote::ToTokens;
use syn::{GenericArgument, Path, PathArguments, Type};

/// Unit variants by the name of their enum: values of types without a default.
pub type Enums = BTreeMap<String, Vec<String>>;

/// Most values that one type is given.
const MOST: usize = 6;

/// Values of a type; a default where nothing better is known, which does not always compile.
pub fn values(ty: &Type, enums: &Enums) -> Vec<String> {
    let mut found = match ty {
        Type::Tuple(tuple) => {
            tuple.elems.iter().fold(vec![Vec::new()], |rows, ty| product(&rows, &values(ty, enums))).iter().map(|row| tuple_of(row)).collect()
        }
        Type::Reference(reference) => referred(&reference.elem, enums),
        Type::Path(path) => named(&path.path, ty, enums),
        Type::Array(array) => {
            let length = array.len.to_token_stream();
            values(&array.elem, enums).into_iter().map(|value| format!("[{value}; {length}]")).collect()
        }
        Type::Paren(inner) => values(&inner.elem, enums),
        Type::Never(_) | Type::ImplTrait(_) => Vec::new(),
        _ => vec!["Default::default()".to_string()],
    };
    found.truncate(MOST);
    found
}

fn product(rows: &[Vec<String>], values: &[String]) -> Vec<Vec<String>> {
    rows.iter().flat_map(|row| values.iter().map(|value| row.iter().cloned().chain([value.clone()]).collect())).collect()
}

fn tuple_of(row: &[String]) -> String {
    format!("({})", row.iter().map(|value| format!("{value},")).collect::<String>())
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

fn referred(ty: &Type, enums: &Enums) -> Vec<String> {
    match ty {
        Type::Path(path) if path.path.is_ident("str") => strings(&["\"\"", "\"xyzzy\""]),
        Type::Slice(slice) => {
            let one = values(&slice.elem, enums).into_iter().map(|value| format!("Vec::leak(vec![{value}])"));
            ["Vec::leak(Vec::new())".to_string()].into_iter().chain(one).collect()
        }
        _ => values(ty, enums).into_iter().map(|value| format!("Box::leak(Box::new({value}))")).collect(),
    }
}

fn named(path: &Path, ty: &Type, enums: &Enums) -> Vec<String> {
    let Some(last) = path.segments.last() else { return Vec::new() };
    let arguments: Vec<&Type> = match &last.arguments {
        PathArguments::AngleBracketed(list) => {
            list.args.iter().filter_map(|argument| if let GenericArgument::Type(ty) = argument { Some(ty) } else { None }).collect()
        }
        _ => Vec::new(),
    };
    let inner = || arguments.first().map(|ty| values(ty, enums)).unwrap_or_default();
    let wrapped = |before: &str| inner().into_iter().map(|value| format!("{before}({value})")).collect::<Vec<_>>();
    match last.ident.to_string().as_str() {
        "bool" => strings(&["true", "false"]),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => strings(&["0", "1"]),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => strings(&["0", "1", "-1"]),
        "String" => strings(&["String::new()", "\"xyzzy\".into()"]),
        "Option" => [vec!["None".to_string()], wrapped("Some")].concat(),
        // fmt's, without arguments, as well as ours.
        "Result" if arguments.is_empty() => strings(&["Ok(())"]),
        "Result" => wrapped("Ok"),
        "Box" | "Rc" | "Arc" => wrapped(&format!("{}::new", last.ident)),
        "Cow" => strings(&["Default::default()", "std::borrow::Cow::Owned(\"xyzzy\".into())"]),
        "Vec" => ["vec![]".to_string()].into_iter().chain(inner().into_iter().map(|value| format!("vec![{value}]"))).collect(),
        "BTreeSet" | "HashSet" => ["Default::default()".to_string()]
            .into_iter()
            .chain(inner().into_iter().map(|value| format!("[{value}].into_iter().collect()")))
            .collect(),
        name => match enums.get(name) {
            Some(variants) => {
                let written = ty.to_token_stream();
                variants.iter().map(|variant| format!("<{written}>::{variant}")).collect()
            }
            None => strings(&["Default::default()"]),
        },
    }
}

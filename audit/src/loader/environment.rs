//! The environment of a process that is still to be started: what its starter has, and what is set on top.

/// Lists that are searched from the left: what is set on top goes before what is there, it does not replace it.
const LISTS: [&str; 3] = ["LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH"];

/// The environment that a supervisor gives a workload: `delta` over what the workload inherits (nothing, if it is started with a cleared one).
///
/// An empty list on either side adds no element: an empty element of a search list is the working directory.
pub fn over(inherited: &[(String, String)], delta: &[(String, String)]) -> Vec<(String, String)> {
    let mut all = effective(inherited);
    for (name, value) in effective(delta) {
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, list)) if LISTS.contains(&name.as_str()) => {
                *list = [value.as_str(), list.as_str()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(":");
            }
            Some((_, known)) => *known = value,
            None => all.push((name, value)),
        }
    }
    all
}

/// Each variable once, the last of its name, sorted: two environments that mean the same are equal then.
pub fn effective(environment: &[(String, String)]) -> Vec<(String, String)> {
    let mut all: std::collections::BTreeMap<&str, &str> = std::collections::BTreeMap::new();
    all.extend(environment.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::over;

    fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|&(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn e4_a_cleared_environment_takes_nothing_from_the_starter() {
        let ambient = variables(&[("LD_LIBRARY_PATH", "/ambient"), ("PATH", "/ambient/bin")]);
        let delta = variables(&[("HSA_X", "1")]);
        assert_eq!(over(&[], &delta), delta);
        assert_eq!(over(&ambient, &delta).len(), 3, "inherited, it is all there");
    }

    #[test]
    fn e12_inherited_lists_stand_behind_and_other_variables_are_replaced() {
        let ambient = variables(&[("LD_LIBRARY_PATH", "/b"), ("LD_PRELOAD", "u.so"), ("PATH", "/bin"), ("PYTHONPATH", "")]);
        let delta = variables(&[("LD_LIBRARY_PATH", "/a"), ("LD_PRELOAD", ""), ("PATH", "/opt"), ("PYTHONPATH", "/p")]);
        let expected = variables(&[("LD_LIBRARY_PATH", "/a:/b"), ("LD_PRELOAD", "u.so"), ("PATH", "/opt"), ("PYTHONPATH", "/p")]);
        assert_eq!(over(&ambient, &delta), expected, "no empty element, which would be the working directory");
        assert_eq!(over(&variables(&[("PATH", "/1"), ("PATH", "/2")]), &[]), variables(&[("PATH", "/2")]), "the last of a name counts");
    }
}

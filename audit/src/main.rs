fn main() {
    for a in std::env::args().skip(1) {
        let e = vrocm_audit::elf::Elf::open(std::path::Path::new(&a));
        match e {
            Err(e) => println!("{e}"),
            Ok(e) => {
                let s = e.symbols();
                match s {
                    Err(e) => println!("{e}"),
                    Ok(s) => println!(
                        "{a} exports {} imports {} {:?} rel {} {} {:?} {:?}",
                        s.exports().count(),
                        s.imports().count(),
                        e.names().map(|n| n.soname),
                        e.symbolic_relocations().map(|r| r.len() as i64).unwrap_or(-1),
                        e.relative_relocations().map(|r| r.len() as i64).unwrap_or(-1),
                        e.build_id(),
                        e.isa_needed()
                    ),
                }
            }
        }
    }
}

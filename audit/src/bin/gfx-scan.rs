fn main() {
    let mut a: Vec<_> = std::env::args().skip(1).collect();
    let target = a.iter().position(|x| x == "--target").map(|i| { let v = a.remove(i + 1); a.remove(i); v });
    for a in a {
        let e = match vrocm_audit::elf::Elf::open(std::path::Path::new(&a)) { Ok(e) => e, Err(e) => { eprintln!("{e}"); continue } };
        let mut l = vrocm_audit::gfx::scan(&e).unwrap();
        if let Some(t) = &target {
            match t.parse() { Ok(n) => println!("{}", serde_json::to_string(&l.answer(&e, n).unwrap()).unwrap()), Err(e) => println!("{e}") }
            continue;
        }
        println!("{}", serde_json::to_string(&l).unwrap());
    }
}

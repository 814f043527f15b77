use std::time::Instant;
fn main() {
    for a in std::env::args().skip(1) {
        for _ in 0..std::env::var("N").map_or(3, |n| n.parse().unwrap()) {
        let t = Instant::now();
        let e = vrocm_audit::elf::Elf::open(std::path::Path::new(&a)).unwrap();
        let so = e.names().unwrap().soname;
        let s = e.symbols().unwrap();
        let t1 = t.elapsed();
        let (id, _) = vrocm_audit::gfx::identity::read(&e, so.as_deref(), &s).unwrap();
        let t2 = t.elapsed();
        let n = vrocm_audit::gfx::names::read(&e).unwrap();
        let t3 = t.elapsed();
        let f = vrocm_audit::code::functions::read(&e).unwrap();
        let t4 = t.elapsed();
        let tb = vrocm_audit::gfx::table::find(&e, &n).unwrap();
        let t5 = t.elapsed();
        let st = vrocm_audit::gfx::registry::read(&e, id, &n).unwrap();
        let t6 = t.elapsed();
        println!("elf {t1:?} id {:?} names {:?} fn {:?} tab {:?} reg {:?} {} {} {}", t2-t1, t3-t2, t4-t3, t5-t4, t6-t5, f.len(), tb.len(), st.registry.is_some());
        }
    }
}

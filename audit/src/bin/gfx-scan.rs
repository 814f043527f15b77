fn main() {
    for a in std::env::args().skip(1) {
        let e = vrocm_audit::elf::Elf::open(std::path::Path::new(&a)).unwrap();
        let so = e.names().unwrap().soname;
        let s = e.symbols().unwrap();
        let (id, what) = vrocm_audit::gfx::identity::read(&e, so.as_deref(), &s).unwrap();
        let n = vrocm_audit::gfx::names::read(&e).unwrap();
        let st = vrocm_audit::gfx::registry::read(&e, id, &n).unwrap();
        println!("{a} {id:?} {what:?} ids {} words {} fused {:?} co {} imm {} bid {:?}", n.ids.len(), n.words.len(), n.fused.iter().map(|t| t.to_string()).collect::<Vec<_>>(), n.code_objects.len(), n.immediates.len(), n.build_id);
        println!("  why {:?} assembled {:?} stray {:?}", st.why_not, st.assembled.iter().map(|t| t.to_string()).collect::<Vec<_>>(), st.stray_versions.iter().map(|t| t.to_string()).collect::<Vec<_>>());
        if let Some(r) = st.registry {
            println!("  REG {:x?} targets {} variants {} generics {} disabled {:?} agree {} mentioned {:?}", r.source, r.targets.len(), r.targets.values().map(|v| v.len()-1).sum::<usize>(), r.generics.len(), r.disabled.iter().map(|t| t.to_string()).collect::<Vec<_>>(), r.versions_agree,
             n.words.iter().filter(|t| !r.targets.contains_key(t)).map(|t| t.to_string()).collect::<Vec<_>>());
        }
    }
}

//! What is made before the program: tables of the judgements, and a program that starts fast.

mod families;
mod hot_code;
mod static_link;

fn main() {
    println!("cargo::rerun-if-changed=build");
    families::write();
    static_link::ask();
    hot_code::ask();
}

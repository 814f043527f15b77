//! How an entry point is called by its address, and arguments of commands.

use std::ffi::c_int;

/// The address of a place, as an argument.
pub fn ptr<T>(place: &mut T) -> usize {
    std::ptr::from_mut(place) as usize
}

/// Calls a function whose arguments are integers and pointers, six at most: those that it does not have it does not look at.
pub fn call6(function: usize, arguments: [usize; 6]) -> c_int {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    // SAFETY: an entry point of the runtime; each caller below gives what the headers declare, and places that live through the call.
    unsafe {
        let function: unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> c_int = std::mem::transmute(function);
        function(first, second, third, fourth, fifth, sixth)
    }
}

/// A number with K, M or G.
pub fn number(arguments: &[&str], index: usize, fallback: usize) -> usize {
    let Some(text) = arguments.get(index).filter(|text| !text.is_empty()) else { return fallback };
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (*text, 0),
    };
    digits.parse::<usize>().map_or(fallback, |value| value << shift)
}

/// Calls a function of up to eight such arguments.
pub fn call8(function: usize, arguments: [usize; 8]) -> c_int {
    let [first, second, third, fourth, fifth, sixth, seventh, eighth] = arguments;
    // SAFETY: as above; arguments beyond those that a function has lie on the stack, where it does not look.
    unsafe {
        let function: unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize) -> c_int = std::mem::transmute(function);
        function(first, second, third, fourth, fifth, sixth, seventh, eighth)
    }
}

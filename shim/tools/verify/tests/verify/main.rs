//! The program as it is run: over the real HIP runtimes on a mock HSA, without a card, and against libraries that are broken on purpose.
//!
//! Reading order: [`run`] starts the program and reads its report; [`whole`] has the runs in which all holds; [`broken`] shows that every case can fail;
//! [`standin`] has those that need a card.

mod broken;
mod run;
mod standin;
mod whole;

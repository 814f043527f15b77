//! What hands out entry points.

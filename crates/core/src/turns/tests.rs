//! What must hold for turns.

//! What is to be rewritten so that nothing is stored as v1beta1 any more, and when a CRD may forget it.
//!
//! Pure: it looks at a CRD and at pages of its objects and says what to do next. The manager does it.

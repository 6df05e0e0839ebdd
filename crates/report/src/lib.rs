//! Findings and coverage as text and JSON. Never touches a driver.

"""OpenVINO's boundary rules, and the merge method made of them."""

// See tour.cu.
#pragma once

void tour();

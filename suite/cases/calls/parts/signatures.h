// What rdc_signatures.cu and its other file share: functions that the ABI
// passes arguments and results of in different ways.
#pragma once

struct Odd {
    char bytes[10];
    short last[1];
};

struct alignas(16) Wide {
    double values[3];
    int *place;
};

struct Pair {
    int *first;
    const int *second;
};

struct Calls {
    int (*mixed)(char, short, Odd, float, double, Wide, int *);
    Pair (*pairs)(int *, long long);
    Wide (*wides)(Wide, const int *, unsigned char);
    bool (*tests)(const int *);
    double (*numbers)();
};

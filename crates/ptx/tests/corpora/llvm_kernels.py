"""LLVM IR through LLVM's own NVPTX backend: what clang, rustc and Julia emit
comes from here, and it looks unlike nvcc's output."""

import llvmlite.binding as llvm

TARGETS = [("sm_75", "+ptx75"), ("sm_90a", "+ptx80"), ("sm_100a", "+ptx86")]

IR = r"""
target triple = "nvptx64-nvidia-cuda"

%pair = type { i8, ptr, float }

@counter = addrspace(1) global i32 0, align 4
@table = addrspace(1) global [3 x ptr] [ptr @add, ptr @subtract, ptr null], align 8
@text = internal addrspace(4) constant [7 x i8] c"%d %s\0A\00", align 1
@numbers = addrspace(1) constant [4 x double] [double 1.0, double -2.5, double 0x7FF0000000000000, double 0.0]
@pairs = addrspace(1) global [2 x %pair] [%pair { i8 97, ptr addrspacecast (ptr addrspace(1) @counter to ptr), float 1.5 }, %pair zeroinitializer]
@nested = addrspace(1) global [2 x [3 x i16]] [[3 x i16] [i16 1, i16 -2, i16 3], [3 x i16] zeroinitializer]
@tile = internal addrspace(3) global [256 x float] undef, align 16
@dynamic = external addrspace(3) global [0 x i8], align 16
@weak = weak addrspace(1) global i64 7
@elsewhere = external addrspace(1) global [0 x i32]

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare void @llvm.nvvm.barrier0()
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)
declare float @llvm.fma.f32(float, float, float)
declare float @llvm.sqrt.f32(float)
declare i32 @llvm.ctpop.i32(i32)
declare i32 @llvm.fshl.i32(i32, i32, i32)
declare i32 @vprintf(ptr, ptr)
declare ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.trap()
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal i32 @add(i32 %a, i32 %b) noinline { %r = add i32 %a, %b ret i32 %r }
define internal i32 @subtract(i32 %a, i32 %b) noinline { %r = sub i32 %a, %b ret i32 %r }
define %pair @by_value(ptr byval(%pair) align 8 %p, i1 %flag, i8 %small, <4 x float> %vector) noinline {
  %v = load %pair, ptr %p
  %x = extractelement <4 x float> %vector, i32 2
  %r = insertvalue %pair %v, float %x, 2
  ret %pair %r
}
define i32 @recursive(i32 %n) {
  %small = icmp slt i32 %n, 2
  br i1 %small, label %done, label %more
more:
  %a = sub i32 %n, 1
  %b = call i32 @recursive(i32 %a)
  %c = sub i32 %n, 2
  %d = call i32 @recursive(i32 %c)
  %e = add i32 %b, %d
  ret i32 %e
done:
  ret i32 %n
}

define ptx_kernel void @saxpy(float %a, ptr %x, ptr %y, i32 %n) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %d = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %m = mul i32 %c, %d
  %i = add i32 %m, %t
  %in = icmp slt i32 %i, %n
  br i1 %in, label %work, label %done
work:
  %p = getelementptr float, ptr %x, i32 %i
  %q = getelementptr float, ptr %y, i32 %i
  %xv = load float, ptr %p
  %yv = load float, ptr %q
  %r = call float @llvm.fma.f32(float %a, float %xv, float %yv)
  store float %r, ptr %q
  br label %done
done:
  ret void
}

define ptx_kernel void @switches(ptr addrspace(1) %out, i32 %n) {
  switch i32 %n, label %other [ i32 0, label %a i32 1, label %b i32 2, label %c i32 3, label %d i32 4, label %e i32 5, label %f ]
a:
  store volatile i32 10, ptr addrspace(1) %out
  ret void
b:
  %old = atomicrmw add ptr addrspace(1) @counter, i32 1 monotonic
  store i32 %old, ptr addrspace(1) %out
  ret void
c:
  %x = cmpxchg ptr addrspace(1) %out, i32 1, i32 2 acq_rel monotonic
  ret void
d:
  %s = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %n, i32 1, i32 31)
  store i32 %s, ptr addrspace(1) %out
  ret void
e:
  %p = call i32 @llvm.ctpop.i32(i32 %n)
  %h = call i32 @llvm.fshl.i32(i32 %p, i32 %n, i32 7)
  store i32 %h, ptr addrspace(1) %out
  ret void
f:
  call void @llvm.trap()
  unreachable
other:
  fence seq_cst
  ret void
}

define ptx_kernel void @indirect(ptr %out, i32 %i) {
  %p = getelementptr [3 x ptr], ptr addrspace(1) @table, i32 0, i32 %i
  %f = load ptr, ptr addrspace(1) %p
  %r = call i32 %f(i32 %i, i32 4)
  %s = call i32 @recursive(i32 %r)
  store i32 %s, ptr %out
  ret void
}

define ptx_kernel void @memory(ptr %out, ptr byval(%pair) align 8 %p, <4 x float> %v, i64 %n) {
  %local = alloca [40 x i32], align 16
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %slot = getelementptr [40 x i32], ptr %local, i32 0, i32 %tid
  store volatile i32 %tid, ptr %slot
  call void @llvm.memset.p0.i64(ptr %out, i8 0, i64 32, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %local, i64 %n, i1 false)
  %s = getelementptr [256 x float], ptr addrspace(3) @tile, i32 0, i32 %tid
  %x = extractelement <4 x float> %v, i32 1
  store float %x, ptr addrspace(3) %s
  call void @llvm.nvvm.barrier0()
  %dyn = getelementptr i8, ptr addrspace(3) @dynamic, i32 %tid
  %byte = load i8, ptr addrspace(3) %dyn
  store i8 %byte, ptr %out
  %big = load <4 x float>, ptr addrspace(3) @tile, align 16
  store <4 x float> %big, ptr %out, align 16
  %half = load <2 x half>, ptr %out, align 4
  %sum = fadd <2 x half> %half, %half
  store <2 x half> %sum, ptr %out, align 4
  %r = call %pair @by_value(ptr byval(%pair) align 8 %p, i1 true, i8 %byte, <4 x float> %v)
  store %pair %r, ptr %out
  %heap = call ptr @malloc(i64 %n)
  store i64 %n, ptr %heap
  %args = alloca { i32, ptr }, align 8
  store i32 %tid, ptr %args
  %status = call i32 @vprintf(ptr addrspacecast (ptr addrspace(4) @text to ptr), ptr %args)
  call void @free(ptr %heap)
  %e = getelementptr [0 x i32], ptr addrspace(1) @elsewhere, i32 0, i32 %tid
  %ev = load i32, ptr addrspace(1) %e
  %wide = zext i32 %ev to i64
  %fa = atomicrmw fadd ptr %out, float 1.5 seq_cst
  %big128 = load i128, ptr %out, align 16
  %shifted = shl i128 %big128, 7
  store i128 %shifted, ptr %out, align 16
  ret void
}
"""

# Line tables as clang writes them with -g.
DEBUG = r"""
target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @lines(ptr %p) !dbg !5 {
  %v = load i32, ptr %p, !dbg !8
  %w = add i32 %v, 1, !dbg !9
  store i32 %w, ptr %p, !dbg !10
  ret void, !dbg !10
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2, !3}
!0 = distinct !DICompileUnit(language: DW_LANG_C_plus_plus, file: !1, producer: "test", isOptimized: true, runtimeVersion: 0, emissionKind: KIND)
!1 = !DIFile(filename: "kernel.cu", directory: "/src")
!2 = !{i32 2, !"Dwarf Version", i32 2}
!3 = !{i32 2, !"Debug Info Version", i32 3}
!4 = !DISubroutineType(types: !{null})
!5 = distinct !DISubprogram(name: "lines", scope: !1, file: !1, line: 1, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!6 = distinct !DISubprogram(name: "inner", scope: !1, file: !1, line: 20, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!7 = distinct !DILocation(line: 3, column: 5, scope: !5)
!8 = !DILocation(line: 2, column: 9, scope: !5)
!9 = !DILocation(line: 21, column: 3, scope: !6, inlinedAt: !7)
!10 = !DILocation(line: 4, column: 1, scope: !5)
"""


def generate(output):
    output.mkdir(parents=True, exist_ok=True)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    inputs = {"kernels": IR, "lines": DEBUG.replace("KIND", "LineTablesOnly"), "debug": DEBUG.replace("KIND", "FullDebug")}
    for name, text in inputs.items():
        for processor, features in TARGETS:
            for level in (0, 3):
                machine = target.create_target_machine(cpu=processor, features=features, opt=level)
                module = llvm.parse_assembly(text)
                module.verify()
                (output / f"{name}.{processor}.O{level}.ptx").write_text(machine.emit_assembly(module))
